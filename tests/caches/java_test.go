package caches

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/wait"
)

// javaPrefix gives a container the packages that "rootfs/needs recipes" unpacks.
func javaPrefix(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../../build/tools/java")
	if err == nil {
		_, err = os.Stat(filepath.Join(dir, "usr/share/maven"))
	}
	if err != nil {
		t.Fatalf("%v: make needs-recipes unpacks Gradle and Maven", err)
	}
	return fmt.Sprintf(`mount --make-rprivate /
for top in etc usr; do mount -t overlay -o lowerdir=%s/$top:/$top overlay /$top; done
export JAVA_HOME=/usr/lib/jvm/default-java
`, dir)
}

// mavenRepository serves version 1.0 of each artifact com.example:rN-x. b and c are needed by a.
func mavenRepository(t *testing.T) (url string) {
	file := regexp.MustCompile(`^/com/example/(r\d+)-(\w)/1\.0/r\d+-\w-1\.0\.(pom|jar)(\.sha1)?$`)
	return serve(t, func(_, path string) []byte {
		m := file.FindStringSubmatch(path)
		if m == nil {
			return nil
		}
		var data []byte
		if m[3] == "jar" {
			data = source(m[1]+m[2], ".txt", func(_ int, text string) string { return text }).zipped("example/")
		} else {
			needs := ""
			if m[2] == "a" {
				needs = dependency("com.example", m[1]+"-b", "1.0") + dependency("com.example", m[1]+"-c", "1.0")
			}
			data = []byte(project("com.example", m[1]+"-"+m[2], "1.0", "<dependencies>"+needs+"</dependencies>"))
		}
		if m[4] != "" {
			sum := sha1.Sum(data)
			data = []byte(hex.EncodeToString(sum[:]))
		}
		return data
	})
}

func dependency(group, name, version string) string {
	return "<dependency>" + coordinates(group, name, version) + "</dependency>"
}

func project(group, name, version, more string) string {
	return "<project><modelVersion>4.0.0</modelVersion>" + coordinates(group, name, version) + more + "</project>\n"
}

func coordinates(group, name, version string) string {
	return fmt.Sprintf("<groupId>%s</groupId><artifactId>%s</artifactId><version>%s</version>", group, name, version)
}

// gradleTool resolves some artifacts.
func gradleTool(t *testing.T) tool {
	env := []string{"REPOSITORY=" + mavenRepository(t)}
	return tool{name: "gradle", prefix: javaPrefix(t), offline: true, env: env, script: `
[ $OFFLINE = false ] || offline=--offline
mkdir -p /mnt/app; cd /mnt/app; : >settings.gradle
cat >build.gradle <<END
apply plugin: 'java'
repositories { maven { url '$REPOSITORY' } }
dependencies { compile 'com.example:r$ROUND-a:1.0' }
task show { doLast { configurations.compile.files.sort { it.name }.each {
	println "RESULT \${it.name} " + java.security.MessageDigest.getInstance('SHA-256').digest(it.bytes).encodeHex()
} } }
task hold { doLast { new File('/mnt/held').createNewFile(); while (!new File('/mnt/go').exists()) { sleep 50 } } }
END
gradle ${offline:-} show ${MORE:-}
`}
}

func TestRecipeGradleKilled(t *testing.T) {
	t.Parallel()
	killed(t, gradleTool(t), 2)
}

// TestRecipeGradle: two containers use Gradle at once, on one network and on two. Neither waits for the other, and what
// they have downloaded is found without a network.
func TestRecipeGradle(t *testing.T) {
	t.Parallel()
	tool := gradleTool(t)
	w := newWorld(t)
	w.prefix = tool.prefix
	env := append(tool.env, "ROUND=1")
	var want string
	for _, offline := range []bool{false, true} {
		a, b := w.start(), w.start()
		held := make(chan struct{})
		go func() {
			defer close(held)
			got, out, err := a.run(offline, tool.script, append(env, "MORE=hold")...)
			if err != nil || got == "" || want != "" && got != want {
				t.Errorf("the first container, offline %v: %v: got %q, want %q\n%s", offline, err, got, want, out)
			}
			want = got
		}()
		wait.For(t, "the first container to build", func() error {
			_, err := os.Stat(filepath.Join(a.dir, "held"))
			return err
		})
		got, out, err := b.run(offline, tool.script, env...)
		if err != nil {
			t.Errorf("the second container, offline %v: %v\n%s", offline, err, out)
		}
		select {
		case <-held:
			t.Error("the first container has ended")
		default:
		}
		if err := os.WriteFile(filepath.Join(a.dir, "go"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		<-held
		if got != want {
			t.Errorf("the second container, offline %v: got %q, want %q\n%s", offline, got, want, out)
		}
		a.end()
		b.end()
		w.published()
	}
}

// mvn runs Maven, version 3.8 of which does not read MAVEN_ARGS. Debian's packages have the plugins.
const mvn = `
[ $OFFLINE = false ] || offline=--offline
cat >/tmp/settings.xml <<END
<settings><mirrors><mirror>
<id>debian</id><mirrorOf>central</mirrorOf><url>file:///usr/share/maven-repo</url>
</mirror></mirrors></settings>
END
mvn() { MAVEN_ARGS= /usr/share/maven/bin/mvn ${offline:-} -B -s /tmp/settings.xml $MAVEN_ARGS -DskipTests "$@"; }
`

const properties = "<properties><maven.compiler.source>8</maven.compiler.source>" +
	"<maven.compiler.target>8</maven.compiler.target></properties>"

// repositories names the repository of the tests.
func repositories(url string) string {
	return "<repositories><repository><id>example</id><url>" + url + "</url></repository></repositories>"
}

// mavenTool compiles a class with some artifacts.
func mavenTool(t *testing.T) tool {
	needs := "<dependencies>" + dependency("com.example", "r$ROUND-a", "1.0") + "</dependencies>"
	pom := project("app", "app", "1", properties+repositories("$REPOSITORY")+needs)
	env := []string{"REPOSITORY=" + mavenRepository(t)}
	return tool{name: "mvn", prefix: javaPrefix(t), offline: true, env: env, script: mvn + `
mkdir -p /mnt/app/src/main/java; cd /mnt/app
cat >pom.xml <<END
` + pom + `END
echo 'class A { }' >src/main/java/A.java
mvn clean >/dev/null 2>&1 || rm -rf target
mvn compile
ls target/classes/A.class
cd "$HDCACHE/maven/com/example"
echo
echo "RESULT $(find r$ROUND-* -name '*.jar' -o -name '*.pom' | sort | xargs sha256sum)"
`}
}

func TestRecipeMavenKilled(t *testing.T) {
	t.Parallel()
	killed(t, mavenTool(t), 2)
}

// TestRecipeMaven: a build uses the library that was installed from its own branch, and the downloads of all.
func TestRecipeMaven(t *testing.T) {
	t.Parallel()
	url := mavenRepository(t)
	pom := func(name, version, needs string) string {
		return project("app", name, version, properties+repositories(url)+"<dependencies>"+needs+"</dependencies>")
	}
	branch := func(name string) []gitserver.Change {
		return []gitserver.Change{
			{Path: "lib/pom.xml", Content: pom("lib", "1-SNAPSHOT", dependency("com.example", "r1-a", "1.0"))},
			{Path: "lib/src/main/java/L.java", Content: `
public class L { public static String v() { return "` + name + `"; } }`},
			{Path: "app/pom.xml", Content: pom("app", "1", dependency("app", "lib", "1-SNAPSHOT"))},
			{Path: "app/src/main/java/A.java", Content: `
public class A { public static void main(String[] a) { System.out.println("RESULT " + L.v()); } }`},
		}
	}
	w := newWorld(t, branch("main")...)
	w.commit("feature", branch("feature")...)
	w.prefix = javaPrefix(t)
	const install, build = mvn + "mvn -f lib/pom.xml install\n", mvn + `mvn -f app/pom.xml package
echo
$JAVA_HOME/bin/java -cp "app/target/classes:$HDCACHE/maven/app/lib/1-SNAPSHOT/lib-1-SNAPSHOT.jar" A
`
	first := w.start("ref", "main")
	if _, out, err := first.run(false, install); err != nil || !strings.Contains(out, "Downloaded from example") {
		t.Fatalf("the first container: %v\n%s", err, out)
	}
	first.want("the first container", false, "RESULT main\n", build)
	first.end()
	w.published()

	feature, main := w.start("ref", "feature"), w.start("ref", "main")
	for _, c := range []container{feature, main} {
		if _, out, err := c.run(true, build); err == nil || !strings.Contains(out, "lib") {
			t.Errorf("a library that another container has installed: %v\n%s", err, out)
		}
		if _, out, err := c.run(true, install); err != nil {
			t.Errorf("without a network: %v\n%s", err, out)
		}
	}
	feature.want("feature", true, "RESULT feature\n", build)
	main.want("main", true, "RESULT main\n", build)
	main.end()
	w.published()
	feature.want("feature, after main", false, "RESULT feature\n", build)
	feature.end()
	w.published()

	last := w.start("ref", "main")
	if _, out, err := last.run(false, install); err != nil || strings.Contains(out, "Downloaded from") {
		t.Errorf("the last container: %v\n%s", err, out)
	}
	last.want("the last container", false, "RESULT main\n", build)
	last.end()
}
