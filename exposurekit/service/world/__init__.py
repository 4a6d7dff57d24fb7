"""The make-believe world: invented people, invented sites and what happened to them there. Never the real web."""
