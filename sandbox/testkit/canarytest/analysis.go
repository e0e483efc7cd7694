package canarytest

import "fmt"

// AnalysisTemplate is the manifest of an AnalysisTemplate that queries url/health every
// second, and fails unless "ok" is true in the response.
func AnalysisTemplate(url string) string {
	return fmt.Sprintf(`
apiVersion: argoproj.io/v1alpha1
kind: AnalysisTemplate
metadata:
  name: answers
spec:
  metrics:
    - name: answers
      interval: 1s
      failureLimit: 0
      successCondition: result == true
      provider:
        web:
          url: %s/health
          jsonPath: "{$.ok}"
`, url)
}
