locals {
  names = ["a", "b"]
  text  = <<-EOT
    %{for n in local.names~}
    name ${n}
    %{endfor~}
    $${escaped} %%{also}
      indented
  EOT
  raw = <<EOT
	tab "quotes" \n stays
EOT
}

resource "terraform_data" "a" {
  input = {
    text = local.text
    raw  = local.raw
    file = templatefile("greet.tftpl", { who = "you", many = [1, 2] })
    cond = "%{if length(local.names) > 1}many%{else}few%{endif}"
    json = jsonencode({ b = [1, 2], a = { x = null } })
    yaml = yamlencode({ b = [1, 2], a = { x = null } })
  }
}

output "text" {
  value = local.text
}

output "path" {
  value = [path.module, path.root, terraform.workspace, tofu.workspace]
}
