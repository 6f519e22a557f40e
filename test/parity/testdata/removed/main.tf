resource "terraform_data" "kept" {
  input = 1
}

resource "terraform_data" "forgotten" {
  input = 2
}

resource "terraform_data" "destroyed" {
  input = 3
}
