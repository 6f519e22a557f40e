resource "terraform_data" "a" {
  input = "a"
}

resource "null_resource" "n" {
  triggers = { a = terraform_data.a.id }
}
