terraform {
  backend "local" {
    path = "my.tfstate"
  }
}

resource "terraform_data" "a" {}
