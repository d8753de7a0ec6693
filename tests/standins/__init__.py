"""Methods and a space with the shapes that later ones will have, to hold the contract to them."""
