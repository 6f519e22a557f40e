resource "null_resource" "a" {
  triggers = "x"
  nope     = 1
}

resource "local_file" "f" {
}

resource "terraform_data" "a" {
  nope {}
}
