data "terraform_remote_state" "other" {
  backend = "local"
  config = {
    path = "other.tfstate"
  }
}

data "terraform_remote_state" "missing" {
  backend = "local"
  config = {
    path = "missing.tfstate"
  }
  defaults = { x = "default" }
}

output "other" {
  value = data.terraform_remote_state.other.outputs
}

output "missing" {
  value = data.terraform_remote_state.missing.outputs
}
