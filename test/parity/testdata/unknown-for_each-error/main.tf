resource "terraform_data" "a" {}

resource "terraform_data" "b" {
  for_each = toset([terraform_data.a.id])
}
