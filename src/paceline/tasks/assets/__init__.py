"""Bundled material of the suite: pictures, word lists, tables, fonts, their licences, and the recipes that made them."""
