// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	sqlitedriver "modernc.org/sqlite"
	sqlitecodes "modernc.org/sqlite/lib"
)

// IsRefused reports whether an error of Write is about the values of an object, such as one that is too long, so that others could be written.
func IsRefused(err error) bool {
	if errors.Is(err, errNoObject) {
		return true
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		// Data exceptions, integrity constraints, and program limits such as the size of an entry of an index.
		return strings.HasPrefix(pg.Code, "22") || strings.HasPrefix(pg.Code, "23") || strings.HasPrefix(pg.Code, "54")
	}
	var my *mysql.MySQLError
	if errors.As(err, &my) {
		// As above. Not all errors have a state of their own.
		state := string(my.SQLState[:2])
		return state == "22" || state == "23" || slices.Contains(mysqlRefusals, my.Number)
	}
	if errors.Is(err, mysql.ErrPktTooLarge) {
		return true
	}
	var lite *sqlitedriver.Error
	if errors.As(err, &lite) {
		switch lite.Code() & 0xff {
		case sqlitecodes.SQLITE_TOOBIG, sqlitecodes.SQLITE_CONSTRAINT, sqlitecodes.SQLITE_MISMATCH:
			return true
		}
	}
	return false
}

// mysqlRefusals are the numbers of MySQL's and MariaDB's errors about values.
var mysqlRefusals = []uint16{
	1048, // a column cannot be null
	1062, // duplicate entry
	1153, // the packet is too large
	1264, // out of range
	1366, // incorrect value, such as text that is not UTF-8
	1406, // too long
	3140, // invalid JSON
	3141, // invalid JSON
	3157, // JSON that is nested too deep
	3150, // JSON that is too long
	1292, // a value of the wrong type
	1300, // text that is not UTF-8
	1301, // the result of a function is too large
	1118, // a row that is too large
	1071, // an entry of an index that is too large
	4025, // a constraint of MariaDB, such as valid JSON
}

// tookTooLong reports whether a database has ended a statement because of its time.
func tookTooLong(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code == "57014"
	}
	var my *mysql.MySQLError
	return errors.As(err, &my) && (my.Number == 1969 || my.Number == 3024)
}

// mayBeData are the errors by which a database says that it cannot do something, other than that it lacks memory, disk, connections or turns. They may be
// about values: then it does the same without them.
func mayBeData(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return !slices.Contains([]string{"08", "25", "28", "40", "53", "55", "57", "58"}, pg.Code[:min(2, len(pg.Code))])
	}
	var my *mysql.MySQLError
	if errors.As(err, &my) {
		return !slices.Contains(mysqlTroubles, my.Number)
	}
	var lite *sqlitedriver.Error
	return errors.As(err, &lite) && lite.Code()&0xff == sqlitecodes.SQLITE_ERROR
}

// mysqlTroubles are the numbers of MySQL's and MariaDB's errors about itself: disks, connections, locks, shutdown, and being read-only.
var mysqlTroubles = []uint16{1021, 1030, 1037, 1038, 1040, 1041, 1053, 1114, 1135, 1158, 1159, 1160, 1161, 1180, 1203, 1205, 1206, 1213, 1226, 1290, 1317, 1792, 1836, 3024}

// IsAboutData reports whether a batch that the database does not take has values which it does not take, by an error that says nothing of that: then it takes
// the same batch without changes.
func (s *Store) IsAboutData(ctx context.Context, stream *Stream, err error) bool {
	if !mayBeData(err) {
		return false
	}
	probe := *stream // as part of another list, it says nothing about what was heard
	return s.Write(ctx, &probe, Batch{Listing: -1}) == nil
}
