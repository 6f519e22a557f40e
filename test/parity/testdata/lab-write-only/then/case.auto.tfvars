token = "a longer one"
