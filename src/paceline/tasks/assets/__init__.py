"""Bundled material of the suite: pictures, word lists, tables and fonts with their licences, and the recipes that made them."""
