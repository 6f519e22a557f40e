resource "terraform_data" "a" {
  input = "x"
}

data "local_file" "f" {
  filename = "main.tf"
}
