resource "terraform_data" "a" {
  for_each = ["a", "b"]
}

resource "terraform_data" "b" {
  for_each = null
}

resource "terraform_data" "c" {
  count = -1
}
