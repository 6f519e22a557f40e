resource "terraform_data" "d" {}
