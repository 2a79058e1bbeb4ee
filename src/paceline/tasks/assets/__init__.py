"""Bundled material of the suite: pictures, words, tables, fonts, their licences, and the recipes that made them."""
