// Package withdrawal takes an interceptor out of service that has lost the API server
// while another interceptor sees it: its Envoys go to the other one, and follow an abort
// there.
//
// The interceptor asks the others at their last known addresses. An interceptor alone goes
// on serving: it withdraws only if another one answers that it sees the API server. If all
// have lost it, nothing changes.
package withdrawal
