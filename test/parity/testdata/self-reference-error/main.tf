resource "terraform_data" "a" {
  input = terraform_data.a.id
}

locals {
  x = local.y
  y = local.x
}
