import {
  to = terraform_data.a
  id = "an-id"
}

resource "terraform_data" "a" {
  input = "new"
}

import {
  to = random_integer.n
  id = "7,1,10,seed"
}

resource "random_integer" "n" {
  min  = 1
  max  = 10
  seed = "seed"
}
