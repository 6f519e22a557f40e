resource "terraform_data" "a" {
  input = "kept"
}

resource "terraform_data" "b" {
  input = "new"
}
