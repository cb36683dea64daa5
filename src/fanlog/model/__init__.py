"""The nouns of the API as frozen values: resources, their names, specs and updates. No I/O."""
