"""The blocking classes. All but io.py are generated from _async by tools/gen-clients."""
