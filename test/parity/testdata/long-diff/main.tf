resource "terraform_data" "a" {
  input = {
    json  = jsonencode({ a = [1, 2, 3], b = { c = "d" }, e = "same" })
    yaml  = "a: 1\nb: 2\nc: 3\n"
    list  = ["a", "b", "c", "d"]
    map   = { one = 1, two = 2 }
    bool  = true
    null  = null
    multi = join("\n", [for i in range(30) : "line ${i}"])
  }
}
