package random

import (
	"crypto/rand"
	"fmt"
	"math/big"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// maxLength bounds what is made at once: values in a state, not files.
const maxLength = 1 << 20

const (
	upperLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	lowerLetters = "abcdefghijklmnopqrstuvwxyz"
	digits       = "0123456789"
	specials     = "!@#$%&*()-_=+[]{}<>:?"
)

// recipe is what random_string and both kinds of random_password have in common: of which characters the result is.
type recipe struct {
	Length          types.Int64  `tfsdk:"length"`
	Special         types.Bool   `tfsdk:"special"`
	Upper           types.Bool   `tfsdk:"upper"`
	Lower           types.Bool   `tfsdk:"lower"`
	Numeric         types.Bool   `tfsdk:"numeric"`
	MinNumeric      types.Int64  `tfsdk:"min_numeric"`
	MinUpper        types.Int64  `tfsdk:"min_upper"`
	MinLower        types.Int64  `tfsdk:"min_lower"`
	MinSpecial      types.Int64  `tfsdk:"min_special"`
	OverrideSpecial types.String `tfsdk:"override_special"`
	Result          types.String `tfsdk:"result"`
}

// setDefaults gives the settings that are null their defaults.
func (r *recipe) setDefaults() {
	for _, b := range []*types.Bool{&r.Special, &r.Upper, &r.Lower, &r.Numeric} {
		if b.IsNull() {
			*b = types.BoolValue(true)
		}
	}
	for _, n := range []*types.Int64{&r.MinNumeric, &r.MinUpper, &r.MinLower, &r.MinSpecial} {
		if n.IsNull() {
			*n = types.Int64Value(0)
		}
	}
}

// check tells what is wrong with the settings, as far as they are known.
func (r *recipe) check() diag.Diagnostics {
	var diags diag.Diagnostics
	bad := func(name, format string, args ...any) {
		diags.AddAttributeError(path.Root(name), "Invalid Attribute Value", name+" "+fmt.Sprintf(format, args...))
	}
	length := r.Length.ValueInt64()
	lengthKnown := !r.Length.IsNull() && !r.Length.IsUnknown()
	if lengthKnown && (length < 1 || length > maxLength) {
		bad("length", "must be from 1 to %d, and is %d.", maxLength, length)
		return diags
	}
	sum, sumKnown := int64(0), true
	for _, m := range []struct {
		name  string
		value types.Int64
	}{{"min_upper", r.MinUpper}, {"min_lower", r.MinLower}, {"min_numeric", r.MinNumeric}, {"min_special", r.MinSpecial}} {
		n := m.value.ValueInt64()
		if n < 0 || n > maxLength {
			bad(m.name, "must be from 0 to %d, and is %d.", maxLength, n)
			return diags
		}
		sum += n
		sumKnown = sumKnown && !m.value.IsUnknown()
	}
	if lengthKnown && sumKnown && sum > length {
		bad("length", "must be at least the sum of min_upper, min_lower, min_numeric and min_special, which is %d, and is %d.", sum, length)
	}
	off := func(b types.Bool) bool { return !b.IsNull() && !b.IsUnknown() && !b.ValueBool() }
	if off(r.Special) && off(r.Upper) && off(r.Lower) && off(r.Numeric) {
		diags.AddAttributeError(path.Root("numeric"), "Invalid Attribute Combination",
			"At least one of special, upper, lower and numeric must be true: there are no characters to choose from.")
	}
	return diags
}

// make sets the result of a recipe that is known and was checked.
func (r *recipe) make() {
	special := []rune(specials)
	if s := r.OverrideSpecial.ValueString(); s != "" {
		special = []rune(s)
	}
	var all, out []rune
	for _, class := range []struct {
		chars []rune
		use   types.Bool
		min   types.Int64
	}{
		{[]rune(upperLetters), r.Upper, r.MinUpper},
		{[]rune(lowerLetters), r.Lower, r.MinLower},
		{[]rune(digits), r.Numeric, r.MinNumeric},
		{special, r.Special, r.MinSpecial},
	} {
		if class.use.ValueBool() {
			all = append(all, class.chars...)
		}
		for range class.min.ValueInt64() {
			out = append(out, class.chars[below(len(class.chars))])
		}
	}
	for range r.Length.ValueInt64() - int64(len(out)) {
		out = append(out, all[below(len(all))])
	}
	for i := len(out) - 1; i > 0; i-- {
		j := below(i + 1)
		out[i], out[j] = out[j], out[i]
	}
	r.Result = types.StringValue(string(out))
}

// below is a number from 0 to n-1 that nobody can guess.
func below(n int) int {
	i, err := rand.Int(rand.Reader, big.NewInt(int64(n)))
	if err != nil {
		panic(err) // crypto/rand's Reader never fails
	}
	return int(i.Int64())
}
