"""Right calls of every public function, and ways to spoil them, for `tests/unit/test_fuzz.py`."""
