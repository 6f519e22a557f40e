password = "hunter3"
