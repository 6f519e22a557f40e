resource "terraform_data" "a" {}

resource "terraform_data" "a" {}

variable "x" {}

variable "x" {}

locals {
  l = 1
}

locals {
  l = 2
}
