package history
import ("testing";"math/rand/v2";"time";"fmt")
func TestX(t *testing.T) {
	for _, n := range []int{20,40,80,160,300} {
		random := rand.New(rand.NewPCG(1, 2))
		rs := simulate(random, 6, n)
		u := 0
		var known []Request
		for _, r := range rs { if r.Outcome==Unknown {u++} else {known=append(known,r)} }
		stale,_ := staleRead(rs)
		b := time.Now()
		v := Check(append(rs, stale), 10*time.Second)
		fmt.Println(n, u, v, time.Since(b))
	}
}
