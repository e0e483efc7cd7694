package gatewayapi

// putLabel has the route carry the Rollout's label while it is not at rest for it,
// and takes it away after the last Rollout that wants it.
func (d *draft) putLabel() {
	had := d.own.Label
	if d.own.isIdle() {
		d.own.Label = nil
		switch {
		case had != nil:
			d.dropLabel(*had)
		case d.leftBehind && d.ro.Label.Key != "":
			d.dropLabel(labelRecord{Label: d.ro.Label})
		}
		return
	}
	if d.ro.Unconfigured {
		return
	}
	if had != nil && had.Key != d.ro.Label.Key {
		d.dropLabel(*had)
		had = nil
	}
	if d.ro.Label.Key == "" {
		d.own.Label = nil
		return
	}
	now, has := stringsOf(d.route, "labels")[d.ro.Label.Key]
	record := labelRecord{Label: d.ro.Label}
	switch {
	case had != nil:
		record.Before = had.Before
	case has && now != d.ro.Label.Value && len(d.labelsOfOthers(d.ro.Label.Key)) == 0:
		record.Before = &now
	}
	d.own.Label = &record
	if !has || now != d.ro.Label.Value {
		setMetadata(d.route, "labels", d.ro.Label.Key, &d.ro.Label.Value)
	}
}

// dropLabel takes a label away, or gives it the value that it had before, unless
// somebody has given it another value or another Rollout wants it.
func (d *draft) dropLabel(record labelRecord) {
	others := d.labelsOfOthers(record.Key)
	now, has := stringsOf(d.route, "labels")[record.Key]
	switch {
	case len(others) > 0:
		setMetadata(d.route, "labels", record.Key, &others[0])
	case has && now == record.Value:
		setMetadata(d.route, "labels", record.Key, record.Before)
	}
}

// labelsOfOthers are the values that other Rollouts want a label to have.
func (d *draft) labelsOfOthers(key string) []string {
	var values []string
	for _, rollout := range d.state.keys() {
		if rollout == d.key() {
			continue
		}
		if label := d.state.entry(rollout).Label; label != nil && label.Key == key {
			values = append(values, label.Value)
		}
	}
	return values
}
