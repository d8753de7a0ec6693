"""Where images come from: arrays in files, folders of pictures, what is wrong with either."""
