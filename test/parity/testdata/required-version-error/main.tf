terraform {
  required_version = ">= 99.0"
}

resource "terraform_data" "a" {}
