"""How the web is looked at: sites as data, how their pages are read, whose a listing is. Submits nothing unasked."""
