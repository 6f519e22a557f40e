text = "two\n"
