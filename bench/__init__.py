"""Speed and memory of Fanlog, beside Google's emulator: `make bench`."""
