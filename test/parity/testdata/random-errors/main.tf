resource "random_integer" "n" {
  min = 10
  max = 1
}

resource "random_string" "x" {
  length = 0
}

resource "random_shuffle" "s" {
}
