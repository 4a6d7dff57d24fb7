"""Definitions of sites, as an operator writes them."""

_BLOCKS = {
    "name": "Seekfolk",
    "guide": "A free directory.",
    "opt_out_procedure": "[Open the form.]",
    "opt_out_url": "{base_url}/opt-out",
    "search": "{{url: {base_url}/search, fields: {{name: '{{first_name}} {{last_name}}'}}, no_results: Nobody of that name}}",
    "listings": '{{item: li, name: h2, reference_id: "@id"}}',
    "removal": "{{method: manual}}",
}


def site_definition(base_url="https://seekfolk.example", **blocks):
    """The text of a definition, by its top-level keys; the removal is last, and a key that is None is missing."""
    whole = {key: text.format(base_url=base_url) for key, text in _BLOCKS.items()} | blocks
    whole["removal"] = whole.pop("removal")
    return "".join(f"{key}: {text}\n" for key, text in whole.items() if text is not None)
