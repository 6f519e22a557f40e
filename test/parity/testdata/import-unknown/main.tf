resource "terraform_data" "first" {}

import {
  to = terraform_data.a
  id = terraform_data.first.id
}

resource "terraform_data" "a" {}
