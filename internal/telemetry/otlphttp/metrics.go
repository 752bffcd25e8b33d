package otlphttp

import (
	"fmt"
	"math"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"google.golang.org/protobuf/encoding/protowire"
)

// encodeMetrics makes an ExportMetricsServiceRequest. It fails on an aggregation
// that nothing here asks the SDK for: exponential histograms and summaries.
func encodeMetrics(data *metricdata.ResourceMetrics) ([]byte, error) {
	var rm message // ResourceMetrics
	rm.message(1, resourceMessage(data.Resource))
	for _, s := range data.ScopeMetrics {
		var sm message
		sm.message(1, scopeMessage(s.Scope))
		for _, metric := range s.Metrics {
			m, err := metricMessage(metric)
			if err != nil {
				return nil, err
			}
			sm.message(2, m)
		}
		sm.string(3, s.Scope.SchemaURL)
		rm.message(2, sm)
	}
	rm.string(3, data.Resource.SchemaURL())
	var request message
	request.message(1, rm)
	return request, nil
}

// metricMessage is a Metric.
func metricMessage(in metricdata.Metrics) (m message, err error) {
	m.string(1, in.Name)
	m.string(2, in.Description)
	m.string(3, in.Unit)
	switch d := in.Data.(type) {
	case metricdata.Gauge[int64]:
		m.message(5, points(d.DataPoints))
	case metricdata.Gauge[float64]:
		m.message(5, points(d.DataPoints))
	case metricdata.Sum[int64]:
		m.message(7, sum(d))
	case metricdata.Sum[float64]:
		m.message(7, sum(d))
	case metricdata.Histogram[int64]:
		m.message(9, histogram(d))
	case metricdata.Histogram[float64]:
		m.message(9, histogram(d))
	default:
		return nil, fmt.Errorf("metric %s: cannot encode %T", in.Name, in.Data)
	}
	return m, nil
}

// sum is a Sum.
func sum[N int64 | float64](d metricdata.Sum[N]) message {
	m := points(d.DataPoints)
	m.uint(2, temporality(d.Temporality))
	m.uint(3, protowire.EncodeBool(d.IsMonotonic))
	return m
}

// points adds repeated NumberDataPoint, the first field of Gauge and Sum.
func points[N int64 | float64](in []metricdata.DataPoint[N]) (m message) {
	for _, p := range in {
		var point message
		point.time(2, p.StartTime)
		point.time(3, p.Time)
		number(&point, 4, 6, p.Value)
		exemplars(&point, 5, p.Exemplars)
		point.attributes(7, p.Attributes.ToSlice())
		m.message(1, point)
	}
	return m
}

// histogram is a Histogram.
func histogram[N int64 | float64](d metricdata.Histogram[N]) (m message) {
	for _, p := range d.DataPoints {
		var point message
		point.time(2, p.StartTime)
		point.time(3, p.Time)
		point.fixed64(4, p.Count)
		point.double(5, float64(p.Sum))
		var counts, bounds []byte
		for _, c := range p.BucketCounts {
			counts = protowire.AppendFixed64(counts, c)
		}
		for _, b := range p.Bounds {
			bounds = protowire.AppendFixed64(bounds, math.Float64bits(b))
		}
		point.bytes(6, counts)
		point.bytes(7, bounds)
		exemplars(&point, 8, p.Exemplars)
		point.attributes(9, p.Attributes.ToSlice())
		if v, ok := p.Min.Value(); ok {
			point.double(11, float64(v))
		}
		if v, ok := p.Max.Value(); ok {
			point.double(12, float64(v))
		}
		m.message(1, point)
	}
	m.uint(2, temporality(d.Temporality))
	return m
}

// exemplars add repeated Exemplar: measurements with the span they were made in.
func exemplars[N int64 | float64](m *message, field protowire.Number, in []metricdata.Exemplar[N]) {
	for _, e := range in {
		var x message
		x.time(2, e.Time)
		number(&x, 3, 6, e.Value)
		x.bytes(4, e.SpanID)
		x.bytes(5, e.TraceID)
		x.attributes(7, e.FilteredAttributes)
		m.message(field, x)
	}
}

// number sets one of the two fields of a value's oneof.
func number[N int64 | float64](m *message, asDouble, asInt protowire.Number, v N) {
	switch v := any(v).(type) {
	case int64:
		m.set64(asInt, uint64(v)) // sfixed64
	case float64:
		m.double(asDouble, v)
	}
}

func temporality(t metricdata.Temporality) uint64 {
	switch t {
	case metricdata.DeltaTemporality:
		return 1
	case metricdata.CumulativeTemporality:
		return 2
	default:
		return 0
	}
}
