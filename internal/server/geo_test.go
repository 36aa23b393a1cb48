package server_test

import (
	"testing"

	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

func TestGeo(t *testing.T) {
	redistest.Each(t, func(t *testing.T, b redistest.Backend) {
		_, addr := start(t, b.URL)
		w, x := dial(t, addr), b.Prefix+"taxis"
		w.want(":2\r\n", "GEOIDX.ADD "+x+" 13.361389 38.115556 Palermo 15.087269 37.502669 Catania")
		w.want(":0\r\n", "geoidx.add "+x+" 13.361389 38.115556 Palermo")
		w.want(":1\r\n", "GEOIDX.ADD "+x+" xx 0 90 pole 15.087269 37.502669 Catania")
		w.want(bulk("166.2742"), "GEOIDX.DIST "+x+" Palermo Catania km")
		w.want("$-1\r\n", "GEOIDX.DIST "+x+" Palermo pole")
		w.want(array(array(bulk("13.361389338970184"), bulk("38.1155563954963")), "*-1\r\n"), "GEOIDX.POS "+x+" Palermo pole")
		near := "GEOIDX.NEAR " + x + " FROMLONLAT 15 37 BYRADIUS 200 KM "
		w.want(array(bulk("Catania"), bulk("Palermo")), near)
		w.want(array(bulk("Palermo"), bulk("Catania")), near+"DESC")
		w.want(array(array(bulk("Catania"), bulk("56.4413"))), near+"ASC COUNT 1 WITHDIST")
		w.want(array(array(bulk("Palermo"), bulk("0.0000"), array(bulk("13.361389338970184"), bulk("38.1155563954963")))),
			"GEOIDX.NEAR "+x+" FROMMEMBER Palermo BYBOX 10 10 M WITHCOORD WITHDIST")
		w.want("-ERR redoubt: no such member: \"pole\"\r\n", "GEOIDX.NEAR "+x+" FROMMEMBER pole BYRADIUS 1 MI")
		w.want("-ERR redoubt: invalid point: longitude 200, latitude 0; want -180 to 180 and -90 to 90\r\n", "GEOIDX.ADD "+x+" 200 0 m")
		w.want(":1\r\n", "GEOIDX.REM "+x+" Palermo pole")
		w.want(array(bulk("Catania")), near)
	})
}
