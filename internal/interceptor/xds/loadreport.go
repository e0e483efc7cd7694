package xds

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// loadReport is a LoadStatsRequest as it was sent. An Envoy names each of its clusters in
// each report, idle or not: decoded, the report of 10,000 clusters would take many
// megabytes each second.
type loadReport []byte

// The numbers of fields, in the API of Envoy.
const (
	reportNode     protowire.Number = 1 // of LoadStatsRequest
	reportClusters protowire.Number = 2

	clusterName       protowire.Number = 1 // of ClusterStats
	clusterLocalities protowire.Number = 2

	localityInProgress protowire.Number = 3 // of UpstreamLocalityStats
	localityPriority   protowire.Number = 6
	localityIssued     protowire.Number = 8
)

// clusterLoad is what a report says of a cluster's endpoints at priority 0.
type clusterLoad struct {
	issued, active uint64 // at most maxLoad each
}

// maxLoad bounds the figures of a cluster in one report. It is far more than an Envoy can
// do, and a sum of such figures does not overflow.
const maxLoad = math.MaxInt32

// plus returns the sum, and whether it is below maxLoad.
func (l clusterLoad) plus(more clusterLoad) (clusterLoad, bool) {
	l.issued, l.active = l.issued+more.issued, l.active+more.active
	return l, l.issued <= maxLoad && l.active <= maxLoad
}

// clusters calls each for the clusters that are not idle, with the name as it was sent, and
// returns how many clusters the report names. A cluster with figures above maxLoad is left
// out. It fails for what is no LoadStatsRequest.
func (r loadReport) clusters(each func(name []byte, load clusterLoad)) (named int, err error) {
	err = fields(r, protowire.BytesType, func(number protowire.Number, value field) error {
		if number != reportClusters {
			return nil
		}
		named++
		name, load, valid, err := clusterOf(value.bytes)
		if valid && load != (clusterLoad{}) {
			each(name, load)
		}
		return err
	})
	return named, err
}

// node returns the node of the report, as it was sent; nil for none.
func (r loadReport) node() (node []byte, err error) {
	err = fields(r, protowire.BytesType, func(number protowire.Number, value field) error {
		if number == reportNode {
			node = value.bytes
		}
		return nil
	})
	return node, err
}

// clusterOf reads a ClusterStats. It is not valid if a figure is above maxLoad.
func clusterOf(stats []byte) (name []byte, load clusterLoad, valid bool, err error) {
	valid = true
	err = fields(stats, protowire.BytesType, func(number protowire.Number, value field) error {
		switch number {
		case clusterName:
			name = value.bytes
		case clusterLocalities:
			here, priority, err := localityOf(value.bytes)
			if err != nil {
				return err
			}
			// The interceptor counts what is handed over to it, at priority 1.
			if priority == 0 {
				var within bool
				load, within = load.plus(here)
				valid = valid && within
			}
		}
		return nil
	})
	return name, load, valid, err
}

// localityOf reads an UpstreamLocalityStats.
func localityOf(stats []byte) (load clusterLoad, priority uint64, err error) {
	err = fields(stats, protowire.VarintType, func(number protowire.Number, value field) error {
		switch number {
		case localityInProgress:
			load.active = min(value.number, maxLoad+1)
		case localityIssued:
			load.issued = min(value.number, maxLoad+1)
		case localityPriority:
			priority = value.number
		}
		return nil
	})
	return load, priority, err
}

// field is the value of a field: a number or bytes.
type field struct {
	number uint64
	bytes  []byte
}

// fields calls each for the fields of a message that are of a kind: numbers or bytes.
func fields(message []byte, kind protowire.Type, each func(protowire.Number, field) error) error {
	for len(message) > 0 {
		number, is, n := protowire.ConsumeTag(message)
		if n < 0 {
			return protowire.ParseError(n)
		}
		message = message[n:]
		var value field
		switch is {
		case protowire.VarintType:
			value.number, n = protowire.ConsumeVarint(message)
		case protowire.BytesType:
			value.bytes, n = protowire.ConsumeBytes(message)
		default:
			n = protowire.ConsumeFieldValue(number, is, message)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		if is == kind {
			if err := each(number, value); err != nil {
				return err
			}
		}
		message = message[n:]
	}
	return nil
}
