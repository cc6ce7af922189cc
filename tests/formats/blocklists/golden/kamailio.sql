BEGIN;
DELETE FROM globalblocklist WHERE description LIKE 'hushcall:%';
INSERT INTO globalblocklist (prefix, allowlist, description) VALUES
('12025550140', '0', 'hushcall: seen 1 day - about 1 phone on 2026-11-15'),
('12025550141', '0', 'hushcall: seen 2 days - about 5 phones on 2026-11-15'),
('12025550142', '0', 'hushcall: seen 3 days - about 14 phones on 2026-11-15'),
('12025550143', '0', 'hushcall: seen 4 days - about 26 phones on 2026-11-15'),
('12025550144', '0', 'hushcall: seen 1 day - about 40 phones on 2026-11-15'),
('12025550145', '0', 'hushcall: seen 2 days - about 55 phones on 2026-11-15'),
('12025550146', '0', 'hushcall: seen 3 days - about 72 phones on 2026-11-15'),
('12025550147', '0', 'hushcall: seen 4 days - about 91 phones on 2026-11-15'),
('12025550148', '0', 'hushcall: seen 1 day - about 111 phones on 2026-11-15'),
('12025550149', '0', 'hushcall: seen 2 days - about 133 phones on 2026-11-15'),
('12025550150', '0', 'hushcall: seen 3 days - about 155 phones on 2026-11-15');
COMMIT;
