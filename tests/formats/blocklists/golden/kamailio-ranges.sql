BEGIN;
DELETE FROM htable WHERE key_value LIKE 'hushcall:%';
INSERT INTO htable (key_name, key_type, value_type, key_value, expires) VALUES ('1202555014x', 0, 0, 'hushcall: 10 of 10 numbers listed', 0);
COMMIT;
