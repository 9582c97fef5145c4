// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package releases

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const (
	// dataVolume is the name of the volume with etcd's data. It is mounted at dataMount, and the data is in dataDir.
	dataVolume = "data"
	dataMount  = "/var/lib/etcd"
	dataDir    = dataMount + "/data"

	jobTimeout = time.Hour
	// podTimeout bounds how long the pod of a Job may take until it starts.
	podTimeout = 5 * time.Minute
	// longestLog is how much of the log of a Job counts.
	longestLog = 64 << 10
)

// checkSnapshot runs a Job that checks the snapshot, and returns what it printed.
func (r *restoration) checkSnapshot(ctx context.Context) (string, error) {
	args := []string{"--data-dir=/nowhere/data", "--dry-run"}
	if r.bump > 0 {
		args = append(args, "--bump-revision="+strconv.FormatUint(r.bump, 10))
	}
	job := r.job("check", args...)
	printed, err := r.run(ctx, job)
	if found := printedHash.FindStringSubmatch(printed); found != nil {
		r.hash = found[1]
	}
	return printed, err
}

// printedHash is how a check prints the hash of the snapshot. Without it, as if the log cannot be read, members take any snapshot.
var printedHash = regexp.MustCompile(`\bSHA-256 ([0-9a-f]{64})\b`)

// runMember runs a Job with the volume of a member, whose pod must be gone.
func (r *restoration) runMember(ctx context.Context, member string, dryRun bool) (string, error) {
	etcd := r.set.Spec.Template.Spec.Containers[0]
	args := []string{
		"--data-dir=" + dataDir, "--replace", "--restore-name=" + r.mark, "--name=" + member,
		"--bump-revision=" + strconv.FormatUint(r.bump, 10),
		"--initial-advertise-peer-urls=" + r.peerURL(member),
		"--initial-cluster=" + r.initialCluster(),
		"--initial-cluster-token=" + argument(etcd.Args, "--initial-cluster-token="),
	}
	if r.hash != "" {
		args = append(args, "--sha256="+r.hash)
	}
	if dryRun {
		args = append(args, "--dry-run")
	}
	if r.OtherCluster {
		args = append(args, "--other-cluster")
	}
	job := r.job(strings.TrimPrefix(member, r.set.Name+"-"), args...)
	// One name for each member: two Jobs would write to one volume.
	job.Name, job.GenerateName = strings.TrimSuffix(job.GenerateName, "-"), ""
	pod := &job.Spec.Template.Spec
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: dataVolume, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: dataVolume + "-" + member},
	}})
	container := &pod.Containers[0]
	container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: dataVolume, MountPath: dataMount})
	container.Resources = etcd.Resources
	pod.NodeSelector, pod.Tolerations = r.set.Spec.Template.Spec.NodeSelector, r.set.Spec.Template.Spec.Tolerations
	return r.run(ctx, job)
}

// job returns a Job whose pod is that of the CronJob that saves snapshots: it has the image, the credentials, and the way to them.
func (r *restoration) job(name string, args ...string) *batchv1.Job {
	template := r.saving.Spec.JobTemplate.Spec.Template.DeepCopy()
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	container := &template.Spec.Containers[0]
	all := append([]string{"etcd", "restore", r.location}, args...)
	for _, arg := range container.Args {
		if strings.HasPrefix(arg, "--s3-") {
			all = append(all, arg)
		}
	}
	container.Args = all
	// The last line of the log is the error.
	container.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	labels := map[string]string{}
	for key, value := range template.Labels {
		labels[key] = value
	}
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{GenerateName: r.set.Name + "-restore-" + name + "-", Namespace: r.Namespace, Labels: labels},
		Spec: batchv1.JobSpec{
			Template: *template, BackoffLimit: ptr.To[int32](0), ActiveDeadlineSeconds: ptr.To(int64(jobTimeout / time.Second)),
			TTLSecondsAfterFinished: ptr.To(int32(time.Hour / time.Second)),
		},
	}
}

// run runs a Job and returns the log of its pod. It removes the Job in any case, and first the one of the same name that a killed command
// has left.
func (r *restoration) run(ctx context.Context, job *batchv1.Job) (log string, err error) {
	if job.Name != "" {
		if err := r.remove(ctx, job); err != nil {
			return "", fmt.Errorf("the Job %s of an earlier command cannot be removed: %w", job.Name, err)
		}
	}
	job, err = r.Client.BatchV1().Jobs(r.Namespace).Create(ctx, job, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("cannot create a Job: %w", err)
	}
	defer func() {
		if left := r.remove(context.WithoutCancel(ctx), job); left != nil && err == nil {
			err = fmt.Errorf("the Job %s cannot be removed: %w", job.Name, left)
		}
	}()
	var failure *batchv1.JobCondition
	began := time.Now()
	err = r.poll(ctx, jobTimeout+startTimeout, "the Job "+job.Name+" has ended", func(ctx context.Context) (bool, error) {
		now, err := r.Client.BatchV1().Jobs(r.Namespace).Get(ctx, job.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			return false, lasting{err}
		}
		if err != nil {
			return false, err
		}
		if now.UID != job.UID {
			return false, lasting{overtaken{r.set.Name}}
		}
		if now.Status.Active > 0 && time.Since(began) > podTimeout {
			if err := r.unschedulable(ctx, job); err != nil {
				return false, lasting{err}
			}
		}
		for _, condition := range now.Status.Conditions {
			if condition.Status == corev1.ConditionTrue && condition.Type == batchv1.JobFailed {
				failure = &condition
			}
		}
		return failure != nil || now.Status.Succeeded > 0, nil
	})
	if err != nil {
		return "", err
	}
	log, err = r.log(ctx, job)
	if failure != nil {
		return "", failed(job.Name, failure, log)
	}
	if err != nil { // the Job has succeeded nevertheless
		r.Progress(fmt.Sprintf("the log of the Job %s cannot be read: %v", job.Name, err))
	}
	return strings.TrimSpace(log), nil
}

// unschedulable returns an error if the pod of a Job does not start, because no node has both the volumes that it needs, or its image.
func (r *restoration) unschedulable(ctx context.Context, job *batchv1.Job) error {
	pods, err := r.Client.CoreV1().Pods(r.Namespace).List(ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(podsOf(job))})
	if err != nil || len(pods.Items) == 0 || pods.Items[0].Status.Phase != corev1.PodPending {
		return nil //nolint:nilerr // it is asked again
	}
	pod := pods.Items[0]
	why := "see its events"
	for _, condition := range pod.Status.Conditions {
		if condition.Status == corev1.ConditionFalse && condition.Message != "" {
			why = condition.Message
		}
	}
	return fmt.Errorf("the pod %s does not start for %s: %s", pod.Name, podTimeout, why)
}

// failed returns the error of a Job: that of its pod, which may have logged nothing, and that of the Job.
func failed(name string, why *batchv1.JobCondition, log string) error {
	lines := strings.Split(strings.TrimSpace(log), "\n")
	last := strings.TrimPrefix(lines[len(lines)-1], "Error: ")
	about := strings.Join(strings.Fields(why.Reason+" "+why.Message), " ")
	switch {
	case last == "":
		return fmt.Errorf("the Job %s failed: %s", name, about)
	case about == "":
		return fmt.Errorf("the Job %s failed: %s", name, last)
	}
	return fmt.Errorf("the Job %s failed: %s (%s)", name, last, about)
}

func (r *restoration) log(ctx context.Context, job *batchv1.Job) (string, error) {
	pods, err := r.Client.CoreV1().Pods(r.Namespace).List(ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(podsOf(job))})
	if err != nil || len(pods.Items) == 0 {
		return "", err
	}
	options := &corev1.PodLogOptions{LimitBytes: ptr.To[int64](longestLog)}
	stream, err := r.Client.CoreV1().Pods(r.Namespace).GetLogs(pods.Items[0].Name, options).Stream(ctx)
	if err != nil {
		return "", err
	}
	defer stream.Close() //nolint:errcheck // it was read
	data, err := io.ReadAll(io.LimitReader(stream, longestLog))
	return string(data), err
}

// remove removes a Job and waits until it and its pods are gone, which hold a volume of a member. A Job without a UID is any of its name.
func (r *restoration) remove(ctx context.Context, job *batchv1.Job) error {
	options := metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationForeground)}
	if job.UID != "" {
		options.Preconditions = metav1.NewUIDPreconditions(string(job.UID))
	}
	jobs := r.Client.BatchV1().Jobs(r.Namespace)
	err := jobs.Delete(ctx, job.Name, options)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) { // a conflict: another Job has the name already
		return err
	}
	err = r.poll(ctx, stopTimeout, "the Job "+job.Name+" is gone", func(ctx context.Context) (bool, error) {
		now, err := jobs.Get(ctx, job.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		if apierrors.IsForbidden(err) {
			return false, lasting{err}
		}
		return err == nil && job.UID != "" && now.UID != job.UID, err
	})
	if err != nil {
		return err
	}
	return r.awaitGone(ctx, job.Name, podsOf(job))
}

// podsOf selects the pods of a Job, or, if it has no UID, those of all Jobs of its name.
func podsOf(job *batchv1.Job) *metav1.LabelSelector {
	if job.UID == "" {
		return &metav1.LabelSelector{MatchLabels: map[string]string{batchv1.JobNameLabel: job.Name}}
	}
	return &metav1.LabelSelector{MatchLabels: map[string]string{batchv1.ControllerUidLabel: string(job.UID)}}
}
