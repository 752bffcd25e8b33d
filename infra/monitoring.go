package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatchactions"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/aws-cdk-go/awscdk/v2/interfaces/interfacesawscloudwatch"
	"github.com/aws/constructs-go/constructs/v10"
)

// monitoring makes alarms and remembers them for the dashboard.
type monitoring struct {
	scope  constructs.Construct
	topic  awssns.ITopic // nil when nobody is told
	alarms []interfacesawscloudwatch.IAlarmRef
}

// newMonitoring watches what an operator would have to act on, and shows the rest.
func newMonitoring(s *Stack, table awsdynamodb.Table, stream *Stream, tasks *Tasks, functions ...*Function) {
	if tasks != nil {
		functions = append(functions, tasks.Function)
	}
	m := &monitoring{scope: constructs.NewConstruct(s.cdk, str("Monitoring"))}
	if s.settings.AlarmTopic != "" {
		m.topic = awssns.Topic_FromTopicArn(m.scope, str("Topic"), str(s.settings.AlarmTopic))
	}
	for _, f := range functions {
		m.alarm(f.name+"-errors", "invocations of "+f.name+" fail; see its log", f.MetricErrors(sum()), 0)
		m.alarm(f.name+"-throttles", "invocations of "+f.name+" are refused; raise the account's concurrency", f.MetricThrottles(sum()), 0)
	}
	age := worst(stream, "IteratorAge")
	m.alarm("stream-age", "subscribers get events more than a minute late", age, 60_000)
	m.alarm("stream-failures", "records of the stream could not be pushed; they are in the failure queue",
		stream.failures.MetricApproximateNumberOfMessagesVisible(&awscloudwatch.MetricOptions{Period: minutes(1), Statistic: str("Maximum")}), 0)
	if tasks != nil {
		m.alarm("tasks-failures", "news of sandboxes' tasks could not be taken; they are in the failure queue",
			tasks.failures.MetricApproximateNumberOfMessagesVisible(&awscloudwatch.MetricOptions{Period: minutes(1), Statistic: str("Maximum")}), 0)
	}
	m.dashboard(s, table, stream, age, functions)
}

// alarm rings when a metric of one minute is above a threshold.
func (m *monitoring) alarm(name, description string, metric awscloudwatch.IMetric, above float64) {
	alarm := awscloudwatch.NewAlarm(m.scope, str(name), &awscloudwatch.AlarmProps{
		AlarmDescription:   str("lambae: " + description),
		Metric:             metric,
		Threshold:          &above,
		ComparisonOperator: awscloudwatch.ComparisonOperator_GREATER_THAN_THRESHOLD,
		EvaluationPeriods:  number(1),
		TreatMissingData:   awscloudwatch.TreatMissingData_NOT_BREACHING, // nothing is invoked while nobody works
	})
	if m.topic != nil {
		alarm.AddAlarmAction(awscloudwatchactions.NewSnsAction(m.topic))
	}
	m.alarms = append(m.alarms, alarm)
}

func (m *monitoring) dashboard(s *Stack, table awsdynamodb.Table, stream *Stream, age awscloudwatch.IMetric, functions []*Function) {
	var invocations, errors, durations, concurrency []awscloudwatch.IMetric
	for _, f := range functions {
		label := func(o *awscloudwatch.MetricOptions) *awscloudwatch.MetricOptions {
			o.Label = str(f.name)
			return o
		}
		invocations = append(invocations, f.MetricInvocations(label(sum())))
		errors = append(errors, f.MetricErrors(label(sum())))
		durations = append(durations, f.MetricDuration(label(&awscloudwatch.MetricOptions{Period: minutes(1), Statistic: str("p90")})))
		concurrency = append(concurrency, f.Metric(str("ConcurrentExecutions"), label(&awscloudwatch.MetricOptions{Period: minutes(1), Statistic: str("Maximum")})))
	}
	units := func(metric string) awscloudwatch.IMetric {
		return table.Metric(str(metric), &awscloudwatch.MetricOptions{Period: minutes(1), Statistic: str("Sum"), Label: str(metric)})
	}
	board := awscloudwatch.NewDashboard(m.scope, str("Dashboard"), &awscloudwatch.DashboardProps{DashboardName: s.cdk.StackName()})
	board.AddWidgets(awscloudwatch.NewAlarmStatusWidget(&awscloudwatch.AlarmStatusWidgetProps{
		Title: str("Alarms"), Alarms: &m.alarms, Width: number(24), Height: number(3),
	}))
	board.AddWidgets(graph("Invocations", invocations...), graph("Errors", errors...))
	board.AddWidgets(graph("Duration, p90 (ms)", durations...), graph("Concurrent executions", concurrency...))
	board.AddWidgets(
		graph("Table, units used", units("ConsumedReadCapacityUnits"), units("ConsumedWriteCapacityUnits")),
		graph("Age of the stream's records (ms)", age),
	)
}

func graph(title string, metrics ...awscloudwatch.IMetric) awscloudwatch.IWidget {
	return awscloudwatch.NewGraphWidget(&awscloudwatch.GraphWidgetProps{
		Title: str(title), Left: &metrics, Width: number(12), Height: number(6),
	})
}

func sum() *awscloudwatch.MetricOptions {
	return &awscloudwatch.MetricOptions{Period: minutes(1), Statistic: str("Sum")}
}

// worst is a metric of the stream's function at its worst.
func worst(f *Stream, name string) awscloudwatch.IMetric {
	return f.Metric(str(name), &awscloudwatch.MetricOptions{Period: minutes(1), Statistic: str("Maximum")})
}

func minutes(n float64) awscdk.Duration { return awscdk.Duration_Minutes(number(n)) }
