resource "terraform_data" "kept" {
  input = 1
}

removed {
  from = terraform_data.forgotten
  lifecycle {
    destroy = false
  }
}

removed {
  from = terraform_data.destroyed
  lifecycle {
    destroy = true
  }
}
