data "local_file" "f" {
  filename = "nope.txt"
}

data "external" "e" {
  program = ["sh", "-c", "echo oops >&2; exit 3"]
}
