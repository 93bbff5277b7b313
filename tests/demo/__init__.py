"""The demo judges itself: so its judge is tested on logs that were made up, each with one thing wrong."""
