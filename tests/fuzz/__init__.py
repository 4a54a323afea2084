"""Right calls of every public function, for `tests/unit/test_fuzz.py`."""
