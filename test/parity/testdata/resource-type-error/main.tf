resource "null_thing" "a" {}

data "terraform_data" "d" {}
