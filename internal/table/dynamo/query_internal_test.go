package dynamo

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lambae/lambae/internal/table"
)

func TestTheSuccessorOfAPrefixIsTheNextTextBehindIt(t *testing.T) {
	t.Parallel()
	for prefix, want := range map[string]string{
		"":                       "",
		"a":                      "b",
		"L#":                     "L$",
		"é":                      "ê",
		"\x7f":                   "\u0080",
		"\uD7FF":                 "\uE000",
		"\uFFFF":                 "\U00010000",
		"a\U0010FFFF":            "b",
		"\U0010FFFF\U0010FFFF":   "",
		"\uD7FF\U0010FFFF":       "\uE000",
		"a\U0010FFFFb\U0010FFFF": "a\U0010FFFFc",
	} {
		require.Equal(t, want, successor(prefix), "%+q", prefix)
	}
}

func TestNoTextLiesBetweenAPrefixAndItsSuccessor(t *testing.T) {
	t.Parallel()
	edges := rapid.SampledFrom([]rune{1, 'a', 0x7f, 0x80, 0x7ff, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF})
	texts := rapid.Custom(func(t *rapid.T) string { return string(rapid.SliceOfN(edges, 0, 4).Draw(t, "runes")) })
	rapid.Check(t, func(t *rapid.T) {
		prefix, other := texts.Draw(t, "prefix"), texts.Draw(t, "other")
		next := successor(prefix)
		inside := other >= prefix && (next == "" || other < next)
		require.Equal(t, strings.HasPrefix(other, prefix), inside, "%+q", next)
	})
}

func TestARangeIsOneComparisonOfTheSortKey(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		r                         table.Range
		expr, from, to, notWanted string
	}{
		{table.Range{PK: "p"}, "pk = :pk", "", "", ""},
		{table.Prefix("p", "L#"), "pk = :pk AND begins_with(sk, :from)", "L#", "", ""},
		{table.Range{PK: "p", From: "L#5", To: "L#\xff"}, "pk = :pk AND sk BETWEEN :from AND :to", "L#5", "L$", "L$"},
		{table.Range{PK: "p", From: "L#5", To: "L#7"}, "pk = :pk AND sk BETWEEN :from AND :to", "L#5", "L#7", "L#7"},
		{table.Range{PK: "p", From: "L#5"}, "pk = :pk AND sk >= :from", "L#5", "", ""},
		{table.Range{PK: "p", To: "L#5"}, "pk = :pk AND sk < :to", "", "L#5", ""},
		{table.Range{PK: "p", From: "L#5", To: "\xff"}, "pk = :pk AND sk >= :from", "L#5", "", ""},
		{table.Range{PK: "p", To: "\xff"}, "pk = :pk", "", "", ""},
	} {
		c := newKeyCondition(tt.r)
		want := attributes{":pk": text("p")}
		if tt.from != "" {
			want[":from"] = text(tt.from)
		}
		if tt.to != "" {
			want[":to"] = text(tt.to)
		}
		require.Equal(t, keyCondition{expr: tt.expr, values: want, notWanted: tt.notWanted}, c, "%+q", tt.r)
	}
}
